// Uploads, files, restarts and the catalogue of errors, with the service on Postgres.
import "./files.test.ts"
import "./uploads.test.ts"
import "./restart.test.ts"
import "./catalogue.test.ts"
