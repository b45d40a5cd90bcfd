import { builtIn } from "../kinds/builtInKinds.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import { ownKind } from "./ownKind.ts"
import { builtInOf } from "./unloadedKind.ts"

/** Returns a kind with everything that runs its jobs. Throws `TypeError` for anything but a kind. */
export const wholeKind = (kind: Kind): JobKind => builtInOf(kind)?.(builtIn) ?? ownKind(kind)
