import { runMounted } from "./support/runMounted.ts"

// Besides: a `Request` has a URL without dot segments and backslashes, joins headers of one name, and is never a TRACE.
const normalized = /\\|\/\.|%2e%2e|another spelling of the path|second header that is empty|TRACE of/
runMounted("fetch", new RegExp(`100-continue|another expectation|${normalized.source}`))
