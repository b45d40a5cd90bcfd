import type { OrphanSurvey } from "@kiln/core/worker"

const files = (count: number): string => `${count} file${count === 1 ? "" : "s"}`

/** Describes what a sweep would remove and what it keeps, in one sentence each. */
export const describeOrphans = ({ blobs, bytes, exceedsShare, kept, removable }: OrphanSurvey): string =>
  [
    `${files(removable.length)} of ${blobs} orphaned (${bytes} bytes)${exceedsShare ? ", more than a sweep removes by itself" : ""}`,
    ...(kept.unknown > 0 ? [`${files(kept.unknown)} kept although the database has no record of their owner`] : []),
    ...(kept.ahead > 0 ? [`${files(kept.ahead)} kept although newer than their job or upload in the database`] : []),
  ].join("; ")
