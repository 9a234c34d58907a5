"""TPC-H on several engines: python3 -m bench.sql.tpch."""
