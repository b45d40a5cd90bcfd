import { existsSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { BlobStore, type StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { EngineConfig } from "@kiln/core/effect"
import { emptyStore } from "../blobs/copyFiles.ts"
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
import { checkNames } from "./Examination.ts"
import { inOrder, type Look, reported, shortLimitMs } from "./inOrder.ts"

export { Examination } from "./Examination.ts"

export interface ExamineOptions {
  /** Milliseconds for each check that reads everything: the database's integrity, the files, the orphans. */
  readonly limitMs: number
}

type Looked<R> = Effect.Effect<ReadonlyArray<Check>, StoreUnavailable | BlobUnavailable | CommandFailed, R>

const look = <R>(name: string, run: Looked<R>, limitMs: number = shortLimitMs): Look<R> => ({ name, limitMs, run })

/** The checks that read blobs, and those that read the database, which include them. */
const ofBlobs = ["bucket", "machines", "installation", "blobs", "orphans"]
const ofDatabase = checkNames.slice(checkNames.indexOf("database"))

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
    const first = yield* reported(installation)
    if (installation.status === "problem")
      return [...first, ...(yield* reported(skipped("blobs", "skipped: they belong to another installation")))]
    const { pending } = yield* store.migrations
    return [
      ...first,
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

/** Whether a blob store in a directory was ever used. To open one makes it, and the doctor makes nothing. */
const hasDirectory = ({ blobs, dataDirectory }: Settings): boolean =>
  blobs._tag !== "Directory" || existsSync(join(blobs.path ?? dataDirectory, "blobs"))

const openedBlobs = (store: StoreInspection, settings: Settings, limitMs: number): Looked<never> =>
  Effect.gen(function* () {
    const config = yield* Effect.orElseSucceed(loadConfig(settings.configPath), () => ({}))
    const hint = localFilesHint(settings)
    // Nothing is known about a bucket before it is listed.
    const place = Effect.map(
      Effect.forEach(
        [
          ...(settings.blobs._tag === "S3" ? [ok("bucket", `${describeBlobs(settings)} can be listed`)] : []),
          ...(hint === undefined ? [] : [ok("machines", hint)]),
        ],
        reported,
      ),
      (checks) => checks.flat(),
    )
    return yield* Effect.all([place, examineBlobs(store, settings, limitMs)]).pipe(
      Effect.map((checks) => checks.flat()),
      Effect.provide(hasDirectory(settings) ? layerBlobs(settings) : Layer.succeed(BlobStore, emptyStore)),
      Effect.provideService(EngineConfig, engineSettings(config, settings.engine)),
    )
  })

const openStore = ({ database }: Settings) => Effect.flatMap(storeMaintenance(database), ({ inspect }) => inspect)

const noSchema = ({ database }: Settings): Check =>
  problem("database", {
    summary: `${describeDatabase(database)} has no kiln schema yet`,
    remedy:
      "if there should be one, correct KILN_DATA_DIR or DATABASE_URL, or restore a backup; to begin a new one, kiln serve or kiln migrate --init, " +
      "with KILN_DATA_DIR or KILN_BLOBS set to a place without files of another installation",
  })

const examineDatabase = (
  settings: Settings,
  limitMs: number,
): Effect.Effect<ReadonlyArray<Check>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { database } = settings
    const found: { store?: StoreInspection | undefined; looks?: ReadonlyArray<Look<never>> } = {}
    const opened = yield* inOrder(database, [
      {
        ...look(
          "database",
          Effect.flatMap(openStore(settings), (store) => {
            found.store = store
            return reported(store === undefined ? noSchema(settings) : ok("database", describeDatabase(database)))
          }),
        ),
        yields: ofDatabase,
      },
    ])
    const { store } = found
    if (store === undefined) return opened
    const planned = yield* inOrder(database, [
      {
        ...look(
          "migrations",
          Effect.map(storeChecks(store, settings, limitMs), (looks) => {
            found.looks = looks
            return []
          }),
        ),
        yields: ofDatabase,
      },
    ])
    const { looks = [] } = found
    // A schema that was never migrated, or is another one, has one check.
    const blobs = {
      ...look("blobs", openedBlobs(store, settings, limitMs), 3 * limitMs + 2 * shortLimitMs),
      yields: ofBlobs,
    }
    return [...opened, ...planned, ...(yield* inOrder(database, looks.length > 1 ? [...looks, blobs] : looks))]
  })

/**
 * Checks all parts of an installation, or those that the `Examination` includes, and reports each result as soon as it is known. A
 * problem that keeps a check from running is reported in any case. Changes nothing, and can run next to a server. Ends also if
 * nothing responds.
 */
export const examine = (environment: Environment, { limitMs }: ExamineOptions): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const { check, valid } = yield* checkSettings(environment)
    const settings = yield* reported(check)
    if (valid === undefined)
      return [...settings, ...(yield* reported(skipped("database", "skipped: the settings are invalid")))]
    return [...settings, ...(yield* examineSurroundings(valid)), ...(yield* examineDatabase(valid.settings, limitMs))]
  }).pipe(Effect.scoped)
