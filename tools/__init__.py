"""Programs that look after this repository; none of them is installed with Headrace."""
