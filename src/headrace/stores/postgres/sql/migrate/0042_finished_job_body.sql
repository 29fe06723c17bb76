-- The body of a finished job, made of the long body of a job: its kind, tag and time, the instant of the end, attempts and
-- stalls; all in MessagePack. NULL where it cannot be made of the bytes alone: a result is kept for a time of its own, or
-- a text or number is longer than nearly all are.
CREATE FUNCTION finished_job_body(body bytea, ended bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  after integer := 1;  -- where the next value begins
  head integer;
BEGIN
  IF get_byte(body, 0) NOT BETWEEN 149 AND 153 OR position('result_ttl_ms'::bytea IN body) > 0 THEN
    RETURN NULL;
  END IF;
  FOR text IN 1..2 LOOP  -- kind and tag
    head := get_byte(body, after);
    IF head = 192 THEN
      after := after + 1;
    ELSIF head BETWEEN 160 AND 191 THEN
      after := after + 1 + head - 160;
    ELSIF head = 217 THEN
      after := after + 2 + get_byte(body, after + 1);
    ELSE
      RETURN NULL;
    END IF;
  END LOOP;
  after := after + CASE get_byte(body, after) WHEN 207 THEN 9 WHEN 206 THEN 5 END;
  IF after IS NULL OR get_byte(body, after) > 127 OR get_byte(body, after + 1) > 127 THEN
    RETURN NULL;
  END IF;
  RETURN '\x96' || substring(body FROM 2 FOR after - 1) || ended || substring(body FROM after + 1 FOR 2);
END
$$;
