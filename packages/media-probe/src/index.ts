export * as MediaProbeLive from "./MediaProbeLive.ts"
