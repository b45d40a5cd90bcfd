// Requests as they come over the wire, with the service on Postgres.
import "./requests.test.ts"
import "./order.test.ts"
import "./wire.test.ts"
