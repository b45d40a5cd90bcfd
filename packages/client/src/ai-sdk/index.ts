export type { KilnCallOptions } from "./callOptions.ts"
export { createKilnProvider, type KilnProvider } from "./createKilnProvider.ts"
