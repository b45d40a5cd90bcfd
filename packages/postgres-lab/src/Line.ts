import { setTimeout as sleep } from "node:timers/promises"

/** One direction of a connection: runs actions in order, each after the delay that applied when it was added. */
export const makeLine = (delayMs: () => number): ((action: () => void) => void) => {
  let waiting = 0
  let tail = Promise.resolve()
  return (action) => {
    const delay = delayMs()
    if (delay === 0 && waiting === 0) return action()
    const due = performance.now() + delay
    waiting += 1
    tail = after(tail, due, () => {
      waiting -= 1
      action()
    })
  }
}

const after = async (before: Promise<void>, due: number, action: () => void): Promise<void> => {
  await before
  await sleep(Math.max(0, due - performance.now()))
  action()
}
