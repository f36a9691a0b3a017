"""The PostgreSQL server that is installed with ReFactX and started on demand."""
