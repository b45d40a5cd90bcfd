import type { ResultOf } from "../api/index.ts"

/** Results of `kiln doctor` that call for action. */
export type Findings = NonNullable<ResultOf<"overview">["findings"]>
