// Jobs and their limits, with the service on Postgres.
import "./jobs.test.ts"
import "./live.test.ts"
import "./limits.test.ts"
