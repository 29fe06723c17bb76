-- Compressing what is read once, soon, costs more than it saves.
ALTER TABLE inbox ALTER COLUMN lines SET STORAGE EXTERNAL;
