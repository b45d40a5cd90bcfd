import type { Layer } from "effect"
import type { EngineSettings } from "../engine/index.ts"
import type { JobKind } from "../kinds/index.ts"
import type {
  BlobStore,
  JobStore,
  KeyDirectory,
  MediaProbe,
  ProviderSet,
  SecretStore,
  Switchboard,
  UploadStore,
} from "../ports/index.ts"

/** All record stores of one adapter. */
export type StoreAdapter = Layer.Layer<JobStore | UploadStore | KeyDirectory | Switchboard | SecretStore, unknown>
/** A place for bytes. */
export type BlobAdapter = Layer.Layer<BlobStore, unknown>
/** Something that measures audio. */
export type ProbeAdapter = Layer.Layer<MediaProbe, unknown>

/** What an engine is put together from. */
export interface EngineOptions {
  readonly store: StoreAdapter
  readonly blobs: BlobAdapter
  /** Who serves sandbox jobs and who serves live ones. A sandbox job never reaches `live`. */
  readonly providers: { readonly sandbox?: ProviderSet; readonly live?: ProviderSet }
  /** Measures uploaded audio. Without one, the declared duration counts. */
  readonly probe?: ProbeAdapter
  /** The kinds of job it knows; the built-in four by default. */
  readonly kinds?: ReadonlyArray<JobKind>
  readonly settings?: Partial<EngineSettings>
  /** `false` for a process that only submits and reads. Default: jobs run in this process. */
  readonly worker?: boolean
}
