import { runMounted } from "./support/runMounted.ts"

// Node itself says 100 and 417 where nobody listens for expectations.
runMounted("express", /100-continue|another expectation/)
