import { createHash } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { migrations } from "../src/migrations/index.ts"

/**
 * SHA-256 of each migration's text. Databases keep these digests, and a database of another text is refused: never change an entry.
 * A change of the schema is a new migration, with a new entry at the end.
 */
const committed: Readonly<Record<string, string>> = {
  "0001Initial": "8bfbf61e2778b6dda4da0cb0786135912c03220a5821414c4ff8e1b6a51dbf83",
  "0002Digests": "0bc913692e400f2ac55fc0b08a8622b8ccf4e2eda38966ad617572eb73f10ed4",
  "0003Limits": "27d68503114231f7dc5df1711739c5a6900c28b70a2ac891a274d8a686b355df",
  "0004Retention": "bfda599c06c1a965653c152395aeae1ccfc8fcc6d91fa32bd291d7c727748756",
  "0005Waits": "8fa6a0b56aa58b612fc691e72a746ad066b7a6fa15e0d7489c5b79c8f26f3be7",
  "0006LaneLocks": "0f115b01046f1e4813b93ce4b8d751ddf2f33fb58b1f1cca90e5ed87071a05d2",
  "0007CreateJobs": "f560071a7d5d246be27cf3fc2e7d4d9f8b42c870408048a5966cfc58cccce09c",
  "0008Plans": "6a872cad62b6b19d12def058bc1e8a55c30250d7caf2eb9266716f246fdd1081",
  "0009TakeJobs": "229b8452b5f57299bcd629127ae54f68b8c04218858ee4d8ad9b04edba3c9297",
  "0010AcceptJobs": "f6e7871c3d8b31ab40cfdb5d47b1d28dda548e2773ec282632893e58003f6e27",
  "0011Operators": "c0da6500c23dd13001d78fe53984d468e664ce4c80bb39895d1828bcb22c9df9",
  "0012Signals": "be76d83be8ec460a0c681677e99baa6b54989b051e5cb430fb56f09ba5cb03dc",
  "0013FailedSteps": "101045ce9b5767df28cf6f83a6c5484a28c17ebaad80e16b6cd8d74282979ae6",
  "0014Prerequisites": "90798e6f7d18b662a94488906405baa8dba3e790acb039107c129dde436c0ed4",
  "0015Chunks": "ec1fd196a1a0f2f4c904af80977d3d28882c06ef5529e0088640cf587d2d55b9",
  "0016Priorities": "4e3a711f05850709e75a718b52bbfd5a621241d08ddeae962117183f7b6bf541",
  "0017Replacements": "30f3982ef86e9eaa5f694169031b98ad55a9d01beb7ae3dbfeebfcd6373a644f",
  "0018KeysInSnapshots": "92bf111e3b48592e70607e3dfe56e7c4a55b835f703fcf416771726196b9ce07",
  "0019LanesInTurn": "db8b4e428fbbd133ae6b1cdf434c72668b506853fefb55e24e3dd02440c57f4f",
}

const digests = migrations.map(({ name, sql }) => [name, createHash("sha256").update(sql).digest("hex")] as const)

describe("migrations", () => {
  it("keep the text that databases have applied", () => {
    expect(Object.fromEntries(digests)).toEqual(committed)
  })

  it("are in the order of their numbers, and no number is used twice", () => {
    const numbers = migrations.map(({ name }) => /^(\d{4})[A-Z][A-Za-z0-9]*$/.exec(name)?.[1] ?? name)
    expect(numbers).toEqual([...new Set(numbers)].toSorted())
  })
})
