import * as Context from "effect/Context"

/**
 * Whether a verb gives up soon where somebody else's open transaction holds what it needs, `contended` and with nothing
 * written, since others stand behind it. Otherwise one item is waited for as long as a conflict is tried again. A store
 * whose transactions never wait for each other need not look.
 */
export const WaitsBriefly = Context.Reference<boolean>("@kiln/core/ports/WaitsBriefly", { defaultValue: () => false })
