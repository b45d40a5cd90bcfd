import { isStorableText } from "./Json.ts"
import { maxSignalNameLength } from "./Parking.ts"

/** The rule of `isSignalName`, for messages. */
export const signalNameRule = `the name of a signal must be text of 1 to ${maxSignalNameLength} characters, without U+0000 or unpaired surrogates`

/** Returns whether a signal can have this name. */
export const isSignalName = (name: unknown): name is string =>
  typeof name === "string" && name.length > 0 && name.length <= maxSignalNameLength && isStorableText(name)
