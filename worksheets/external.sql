-- External tables: Delta logs, and exports. They show what they were last told of.

USE WAREHOUSE FRAZIL_DEV;
USE SCHEMA FRAZIL_DEV.LAKE;

-- as the loader, who owns them: look again. `frazil` does so after each publish of a table with formats: [iceberg, delta]
USE ROLE FRAZIL_DEV_LOADER;
ALTER EXTERNAL TABLE STOCK_TRADES__DELTA REFRESH;
ALTER EXTERNAL TABLE EXPORTS__CSV REFRESH;
ALTER EXTERNAL TABLE EXPORTS__PARQUET REFRESH;

-- as the reader: columns of the table are in VALUE, by their names in lower case
USE ROLE FRAZIL_DEV_READER;
SELECT VALUE:symbol::STRING AS symbol, COUNT(*) AS trades, SUM(VALUE:quantity::INT) AS shares
FROM STOCK_TRADES__DELTA
GROUP BY 1
ORDER BY shares DESC;

-- both ways to the same files see the same rows
SELECT
  (SELECT COUNT(*) FROM STOCK_TRADES) AS by_iceberg,
  (SELECT COUNT(*) FROM STOCK_TRADES__DELTA) AS by_delta;

-- exports: which files there are, and what is in them
LIST @EXPORTS;
SELECT FILE, COUNT(*) AS "rows" FROM EXPORTS__PARQUET GROUP BY FILE;
SELECT VALUE:c1::STRING AS first_column, VALUE:c2::STRING AS second_column FROM EXPORTS__CSV LIMIT 10;
