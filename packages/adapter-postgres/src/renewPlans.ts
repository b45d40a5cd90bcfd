import type pg from "pg"

/** Milliseconds for which a connection keeps plans. */
const keptMs = 10_000

/** When the plans of a connection were made. */
const madeAt = new WeakMap<pg.ClientBase, number>()

/**
 * Lets the server plan the statements of a connection anew, once in ten seconds, ahead of the next one. A session keeps the plans of prepared
 * statements and of functions until a table is vacuumed or analyzed. A plan that was made while a table had a few rows reads all of it, which is right
 * then and takes 25 ms when it has 100,000. Planning everything that a busy connection sends takes 10 ms. It is sent without waiting for
 * its answer.
 */
export const renewPlans = (client: pg.ClientBase): void => {
  const now = performance.now()
  const at = madeAt.get(client)
  if (at !== undefined && now - at < keptMs) return
  madeAt.set(client, now)
  // If it fails, so does what is sent after it.
  if (at !== undefined) client.query("DISCARD PLANS").catch(() => undefined)
}
