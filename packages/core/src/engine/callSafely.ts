/** Calls a function of the embedding program. An exception, or the rejection of a promise it returns, goes to `failed`. */
export const callSafely = <A>(call: (value: A) => unknown, value: A, failed: (error: unknown) => void): void => {
  try {
    const returned = call(value)
    // Most functions return nothing, and there are many events.
    if (returned !== undefined) Promise.resolve(returned).catch(failed)
  } catch (error) {
    failed(error)
  }
}
