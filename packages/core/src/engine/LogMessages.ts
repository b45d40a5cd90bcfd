import * as Context from "effect/Context"

interface Process {
  readonly env?: Readonly<Record<string, string | undefined>>
}

/** Whether the program says that it is being developed: `NODE_ENV=development`. A runtime may refuse to tell. */
export const isDevelopment = (): boolean => {
  try {
    return (globalThis as { readonly process?: Process }).process?.env?.["NODE_ENV"] === "development"
  } catch {
    return false
  }
}

/** Whether the log has the messages of errors, which may quote requests. By default, only in development. */
export const LogMessages = Context.Reference<boolean>("@kiln/core/engine/LogMessages", { defaultValue: isDevelopment })
