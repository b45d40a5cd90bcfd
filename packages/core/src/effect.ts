export * from "./domain/index.ts"
export * from "./engine/index.ts"
export * from "./kinds/index.ts"
export * from "./ports/index.ts"
