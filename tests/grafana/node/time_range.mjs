import { dateTime, rangeUtil } from '@grafana/data';

/** What a browser's graph asks for at most, and what Grafana takes for a data source that says nothing of its scrapes. */
const DEFAULT_MAX_POINTS = 600;
const DEFAULT_SCRAPE_SECONDS = 15;

/** Grafana's time range from two Unix times in milliseconds. */
export function timeRange(from, to) {
  const [start, end] = [dateTime(from), dateTime(to)];
  return { from: start, to: end, raw: { from: start, to: end } };
}

/** Seconds of a length of time as Grafana writes it (`30s`, `1m`). */
function seconds(text) {
  return rangeUtil.intervalToSeconds(text);
}

/**
 * The steps of a panel's range queries in seconds, and the values of Grafana's variables for them.
 *
 * https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/ tells what they mean.
 */
export function intervals(panel, target, range, scrapeInterval) {
  const scrape = scrapeInterval ? seconds(scrapeInterval) : DEFAULT_SCRAPE_SECONDS;
  const wanted = target.interval || panel.interval;
  const least = wanted ? seconds(wanted.replace(/^>/, '')) : scrape;
  const points = panel.maxDataPoints || DEFAULT_MAX_POINTS;
  const whole = rangeUtil.calculateInterval(range, points, `${least}s`);
  const step = Math.max(whole.intervalMs / 1000, least) * (target.intervalFactor || 1);
  const length = (range.to.valueOf() - range.from.valueOf()) / 1000;
  return {
    step,
    variables: {
      __interval: `${step}s`,
      __interval_ms: String(step * 1000),
      __rate_interval: `${Math.max(step + scrape, 4 * scrape)}s`,
      __range: `${Math.round(length)}s`,
      __range_s: String(Math.round(length)),
      __range_ms: String(Math.round(length * 1000)),
    },
  };
}
