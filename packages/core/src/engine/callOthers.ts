/**
 * Calls a function of the program's, whatever its type says: what it throws, or what the promise it gives is rejected with,
 * goes to `failed` and ends nothing here.
 */
export const callOthers = (call: () => unknown, failed: (error: unknown) => void): void => {
  try {
    Promise.resolve(call()).catch(failed)
  } catch (error) {
    failed(error)
  }
}
