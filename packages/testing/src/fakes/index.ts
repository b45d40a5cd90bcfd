export * from "./Behavior.ts"
export * from "./FakeMediaProbe.ts"
export * from "./FakeProviders.ts"
