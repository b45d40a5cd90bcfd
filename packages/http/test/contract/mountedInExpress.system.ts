import { runMounted } from "./support/runMounted.ts"

// Node sends 100 and 417 itself if no listener handles expectations.
runMounted("express", /100-continue|another expectation/)
