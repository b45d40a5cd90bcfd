import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { withoutPrefix } from "./withoutPrefix.ts"
import type { MountName, Service, ServiceSettings } from "./Service.ts"
import { startService } from "./startService.ts"
import { runRow, type Table } from "./tables.ts"
import { besidesRoutes } from "../tables/besides.ts"
import { bodies } from "../tables/bodies.ts"
import { files } from "../tables/files.ts"
import { idempotency } from "../tables/idempotency.ts"
import { json } from "../tables/json.ts"
import { keys } from "../tables/keys.ts"
import {
  defaultLimits,
  defaultLimitSettings,
  limitSettings,
  proxies,
  proxySettings,
  rateLimits,
  failedAuthentications,
} from "../tables/limits.ts"
import { order, orderSettings } from "../tables/order.ts"
import { outcomes } from "../tables/outcomes.ts"
import { ownership } from "../tables/ownership.ts"
import { races } from "../tables/races.ts"
import { routing } from "../tables/routes.ts"
import { signedUrls } from "../tables/signedUrls.ts"
import { signedUrlSpellings } from "../tables/signedUrlSpellings.ts"
import { success } from "../tables/success.ts"
import { transfers } from "../tables/transfers.ts"
import { uploads, uploadSettings } from "../tables/uploads.ts"

const suites: ReadonlyArray<readonly [name: string, settings: ServiceSettings, tables: ReadonlyArray<Table>]> = [
  // The fields of requests are checked behind what the mounts have in common.
  ["requests", {}, [routing, besidesRoutes, keys, bodies, json]],
  ["jobs", {}, [success, outcomes, idempotency, ownership, races]],
  ["files", {}, [files, signedUrls, signedUrlSpellings]],
  ["uploads", uploadSettings, [uploads, transfers]],
  ["order", orderSettings, [order]],
  ["limits", limitSettings, [rateLimits, failedAuthentications]],
  ["limits behind a proxy", proxySettings, [proxies]],
  ["limits of an installation nobody configured", defaultLimitSettings, [defaultLimits]],
]

/** Runs the tables against a service mounted in another server, except for rows about behavior of that server. */
export const runMounted = (mount: MountName, notIts: RegExp): void => {
  describe.each(suites)("%s", (_, settings, tables) => {
    let service: Service
    beforeAll(async () => {
      service = await startService("memory", { ...settings, mount, tamper: withoutPrefix })
    })
    afterAll(() => service.stop())
    for (const { inTurn, name, rows } of tables) {
      const its = rows.filter((row) => !notIts.test(row.name))
      describe(name, { concurrent: !inTurn }, () => {
        it.each(its)("$name", async (row) => {
          // What a row expects it checks itself.
          expect(await runRow(row, service)).toBeDefined()
        })
      })
    }
  })
}
