import { plant } from "./jobTransitionBugs.ts"

const together = "three processes together admit no more than one bucket, in any window"
const late = "a portion that is used at its very end leaves no room for others before"
const alone = "a process alone gets the whole burst, and then the rate, to the millisecond"
const back = "what a process returns, or held when it died, others get"
const gone = "a row that may go is as good as none"
const file = "RateLimit.ts"

/** Bugs in the text of `domain/RateLimit.ts`, and the property that must notice each. */
export const rateLimitBugs = [
  plant(
    "a bucket refills while processes hold its tokens",
    together,
    file,
    "burst * TOKEN - tokensOf(held))\n",
    "burst * TOKEN)\n",
  ),
  plant(
    "a bucket refills beside a portion as if it had ended already",
    late,
    file,
    "    fillUntil(next[1].until)\n    held.shift()",
    "    held.shift()\n    fillUntil(next[1].until)",
  ),
  plant(
    "tokens that a process has used go back as well",
    together,
    file,
    "Math.min(own, unused) * TOKEN",
    "own * TOKEN",
  ),
  plant(
    "the portion of a dead process goes back unused",
    together,
    file,
    "    held.shift()",
    "    filled += next[1].tokens * TOKEN\n    held.shift()",
  ),
  plant("taking does not empty the bucket", together, file, "level - tokens * TOKEN", "level"),
  plant("a portion replaces those of others", together, file, "[...others, ...portion]", "portion"),
  plant(
    "the rate counts in seconds",
    alone,
    file,
    "Math.max(0, time - since) * perMinute",
    "Math.floor((time - since) / 1_000) * 1_000 * perMinute",
  ),
  plant(
    "the last token stays in the bucket",
    alone,
    file,
    "Math.ceil(Math.floor(level / TOKEN) / 2)",
    "Math.floor(Math.floor(level / TOKEN) / 2)",
  ),
  plant(
    "tokens that a process returns are lost",
    back,
    file,
    "Math.floor(refilled.level) + Math.min(own, unused) * TOKEN",
    "Math.floor(refilled.level)",
  ),
  plant(
    "the portion of a dead process is never free again",
    back,
    file,
    "next[1].until <= now; next",
    "next[1].until < 0; next",
  ),
  plant("a row goes while a process holds tokens", gone, file, "Math.max(at, ...Object", "Math.min(at, ...Object"),
]
