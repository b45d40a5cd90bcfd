import pg from "pg"
import { isError } from "@kiln/core/domain"

/** Five characters, for example `40P01`; `undefined` for what the server did not say. */
export const sqlState = (error: unknown): string | undefined => {
  if (error instanceof pg.DatabaseError) return error.code
  // Of a caller's own driver.
  return isError(error) && "severity" in error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined
}
