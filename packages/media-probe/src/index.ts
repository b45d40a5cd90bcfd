export { audioProbe } from "./audioProbe.ts"
export * as MediaProbeLive from "./MediaProbeLive.ts"
