// With a thousand jobs.
import "./money.system.ts"
