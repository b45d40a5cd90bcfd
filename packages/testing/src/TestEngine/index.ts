export { testEngine } from "./createTestEngine.ts"
export type * from "./TestEngine.ts"
export type { TimeSpan } from "./TimeSpan.ts"
