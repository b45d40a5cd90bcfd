import * as Context from "effect/Context"

/**
 * When true, a store verb that needs a row locked by another transaction gives up early: the item ends as `contended` and nothing
 * is written for it, because other callers share its batch. When false, the default, the verb keeps retrying the conflict for as
 * long as the store allows. A store whose transactions never wait for each other can ignore it.
 */
export const ShortLockWait = Context.Reference<boolean>("@kiln/core/ports/ShortLockWait", { defaultValue: () => false })
