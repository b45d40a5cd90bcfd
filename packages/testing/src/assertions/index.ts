export { AssertionError } from "./AssertionError.ts"
export * from "./asserts.ts"
export type { PartOf, SeenJob } from "./SeenJob.ts"
export type { ExpectedCharge } from "./verdicts.ts"
