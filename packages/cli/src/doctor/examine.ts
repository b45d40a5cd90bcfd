import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { EngineConfig } from "@kiln/core/effect"
import type { CommandFailed } from "../CommandFailed.ts"
import { engineSettings } from "../KilnConfig.ts"
import { loadConfig } from "../loadModule.ts"
import { describeDatabase } from "../database/DatabasePlace.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { describeBlobs, layerBlobs, localFilesHint } from "../layerBlobs.ts"
import type { Environment, Settings } from "../Settings.ts"
import { type Check, ok, problem, skipped } from "./Check.ts"
import { checkAddress } from "./checkAddress.ts"
import { checkBlobs } from "./checkBlobs.ts"
import { checkDisk } from "./checkDisk.ts"
import { checkFileSystem } from "./checkFileSystem.ts"
import { checkInstallation } from "./checkInstallation.ts"
import { checkOrphans } from "./checkOrphans.ts"
import { checkPermissions } from "./checkPermissions.ts"
import { checkPublicUrl } from "./checkPublicUrl.ts"
import { checkSettings, type CheckedSettings } from "./checkSettings.ts"
import { storeChecks } from "./checkStore.ts"
import { inOrder, type Look, shortLimitMs } from "./inOrder.ts"

export interface ExamineOptions {
  /** Milliseconds for each check that reads everything: the database's integrity, the files, the orphans. */
  readonly limitMs: number
}

type Looked<R> = Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable | CommandFailed, R>

const look = <R>(name: string, run: Looked<R>, limitMs: number = shortLimitMs): Look<R> => ({ name, limitMs, run })

/** The checks of this machine and of the address, which need no database. */
const examineSurroundings = ({
  given,
  settings,
}: NonNullable<CheckedSettings["valid"]>): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.map(
    Effect.forEach(
      [
        look("disk", checkDisk(settings)),
        look("filesystem", checkFileSystem(settings)),
        look("permissions", checkPermissions(settings, given)),
        look("address", checkAddress(settings)),
        look("public-url", checkPublicUrl(settings)),
      ],
      (each) => inOrder(settings.database, [each]),
      { concurrency: "unbounded" },
    ),
    (checks) => checks.flat(),
  )

/** Blobs of another installation are not read. */
const examineBlobs = (store: StoreInspection, settings: Settings, limitMs: number): Looked<BlobStore> =>
  Effect.gen(function* () {
    const installation = yield* checkInstallation(store)
    if (installation.status === "problem")
      return [installation, skipped("blobs", "skipped: they belong to another installation")]
    const { pending } = yield* store.migrations
    return [
      installation,
      ...(yield* inOrder(settings.database, [
        // The check ends by itself when its time is over.
        look(
          "blobs",
          Effect.map(checkBlobs(store, limitMs), (check) => [check]),
          limitMs + shortLimitMs,
        ),
        ...(pending.length === 0
          ? [
              look(
                "orphans",
                Effect.map(checkOrphans(store), (check) => [check]),
                limitMs,
              ),
            ]
          : []),
      ])),
    ]
  })

const openedBlobs = (store: StoreInspection, settings: Settings, limitMs: number): Looked<never> =>
  Effect.gen(function* () {
    const config = yield* Effect.orElseSucceed(loadConfig(settings.configPath), () => ({}))
    const hint = localFilesHint(settings)
    const checks = yield* examineBlobs(store, settings, limitMs).pipe(
      Effect.provide(layerBlobs(settings)),
      Effect.provideService(EngineConfig, engineSettings(config, settings.engine)),
    )
    return [
      ...(settings.blobs._tag === "S3" ? [ok("bucket", `${describeBlobs(settings)} can be listed`)] : []),
      ...(hint === undefined ? [] : [ok("machines", hint)]),
      ...checks,
    ]
  })

const openStore = ({ database }: Settings) => Effect.flatMap(storeMaintenance(database), ({ inspect }) => inspect)

const noSchema = ({ database }: Settings): Check =>
  problem("database", {
    summary: `${describeDatabase(database)} has no kiln schema yet`,
    remedy:
      "kiln serve or kiln migrate --init creates it; if there should be one, correct KILN_DATA_DIR or DATABASE_URL",
  })

const examineDatabase = (
  settings: Settings,
  limitMs: number,
): Effect.Effect<ReadonlyArray<Check>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { database } = settings
    const found: { store?: StoreInspection | undefined; looks?: ReadonlyArray<Look<never>> } = {}
    const opened = yield* inOrder(database, [
      look(
        "database",
        Effect.map(openStore(settings), (store) => {
          found.store = store
          return [store === undefined ? noSchema(settings) : ok("database", describeDatabase(database))]
        }),
      ),
    ])
    const { store } = found
    if (store === undefined) return opened
    const planned = yield* inOrder(database, [
      look(
        "migrations",
        Effect.map(storeChecks(store, settings, limitMs), (looks) => {
          found.looks = looks
          return []
        }),
      ),
    ])
    const { looks = [] } = found
    // A schema that was never migrated, or is another one, has one check.
    const blobs = look("blobs", openedBlobs(store, settings, limitMs), 3 * limitMs + 2 * shortLimitMs)
    return [...opened, ...planned, ...(yield* inOrder(database, looks.length > 1 ? [...looks, blobs] : looks))]
  })

/** Checks all parts of an installation. Changes nothing, and can run next to a server. Ends also if nothing responds. */
export const examine = (environment: Environment, { limitMs }: ExamineOptions): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const { check, valid } = yield* checkSettings(environment)
    if (valid === undefined) return [check, skipped("database", "skipped: the settings are invalid")]
    return [check, ...(yield* examineSurroundings(valid)), ...(yield* examineDatabase(valid.settings, limitMs))]
  }).pipe(Effect.scoped)
