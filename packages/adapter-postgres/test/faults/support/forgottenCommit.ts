import { freshDatabase, startCluster, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores, outcomeOf, tags } from "./openStores.ts"
import { session } from "./session.ts"

const { newJob } = fixtures

/**
 * A connection is lost at COMMIT, the server crashes before it has written anything of the transaction down, and its number
 * goes to another, which commits. Answers with what the verb said, what is stored then, and what a repeat says.
 */
export const forgottenCommit = async () => {
  // Nothing of a transaction reaches the disk before its COMMIT, so that the server gives out its number again.
  await using server = await startCluster({ settings: { wal_writer_delay: 10_000 } })
  await using database = await freshDatabase({ server: server.url })
  await using proxy = await tcpProxy(database.url)
  await using stores = await openStores({ url: proxy.url, poolSize: 2, retryForMs: 30_000, reconnectForMs: 30_000 })
  {
    await using other = await session(database.url)
    await other.query("CREATE TABLE noise (n int)")
  }
  const cut = proxy.cutBefore()
  const creating = outcomeOf(stores.jobs.createJobs([newJob(1)]))
  proxy.refuse()
  await cut
  await server.restart("immediate")
  await using other = await session(database.url)
  for (let n = 0; n < 50; n++) await other.query("INSERT INTO noise VALUES ($1)", [n])
  await proxy.pass()
  const answer = tags(await creating)
  const stored = (await other.query('SELECT FROM "kiln".jobs')).rowCount
  return { answer, stored, repeated: tags(await outcomeOf(stores.jobs.createJobs([newJob(1)]))) }
}
