// How much of its thread the page uses for each frame while something long is scrolled; time that others take of the
// processor does not count.

const CATEGORIES = "devtools.timeline,disabled-by-default-devtools.timeline,toplevel,blink.user_timing";

/** Scrolls by so many pixels in each frame; the milliseconds of the main thread in each, sorted. */
export async function framesWhileScrolling(page, selector, { frames = 120, step = 120 } = {}) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  const complete = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: CATEGORIES.split(",") } });
  await page.evaluate(
    async ([place, count, by]) => {
      const scroller = document.querySelector(place);
      for (let frame = 0; frame < count; frame++) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
        performance.mark(`frame ${frame}`);
        scroller.scrollTop += by;
      }
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      performance.mark(`frame ${count}`);
    },
    [selector, frames, step],
  );
  await session.send("Tracing.end");
  await complete;
  return spentBetweenMarks(events);
}

function spentBetweenMarks(events) {
  const marks = events.filter(({ name }) => /^frame \d+$/.test(name)).sort((one, other) => one.ts - other.ts);
  const { pid, tid } = marks[0];
  const tasks = events.filter((one) => one.pid === pid && one.tid === tid && one.ph === "X" && one.name === "RunTask" && one.tdur !== undefined);
  const spent = marks.slice(1).map(() => 0);
  for (const { ts, tdur } of tasks) {
    const index = marks.findLastIndex((mark) => mark.ts <= ts);
    if (index >= 0 && index < spent.length) spent[index] += tdur / 1000;
  }
  return spent.sort((one, other) => one - other);
}

export const share = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
