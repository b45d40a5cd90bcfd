/** Calls a function of the embedding program. An exception, or the rejection of a promise it returns, goes to `failed`. */
export const callSafely = (call: () => unknown, failed: (error: unknown) => void): void => {
  try {
    Promise.resolve(call()).catch(failed)
  } catch (error) {
    failed(error)
  }
}
