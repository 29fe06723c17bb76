"""The app: functions become jobs, and it knows where they are sent and who works on them."""
