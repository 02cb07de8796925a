import { formattedValueToString, getFieldDisplayName } from '@grafana/data';

const NAMES = 190;
const FOOT = 34;

/** Bars of equal values after one another, [from, to, value]; where a point is missing a bar ends. */
function bars(times, values, step) {
  const found = [];
  times.forEach((time, place) => {
    const value = values[place];
    if (value === null || value === undefined || Number.isNaN(value)) {
      return;
    }
    const next = times[place + 1];
    const end = next !== undefined && next - time <= 1.5 * step ? next : time + step;
    const last = found.at(-1);
    if (last !== undefined && last[2] === value && last[1] >= time) {
      last[1] = end;
    } else {
      found.push([time, end, value]);
    }
  });
  return found;
}

/**
 * A plain stand-in for Grafana's state timeline, which no package of it has: the same frames, texts and colours, but not
 * its drawing, and it says so.
 */
export function Timeline({ data, width, height, range, theme }) {
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const rows = data.flatMap((frame) => {
    const [time, ...values] = frame.fields;
    return values.map((field) => ({ name: getFieldDisplayName(field, frame, data), field, of: bars(time.values, field.values, time.config.interval) }));
  });
  const each = Math.min(30, (height - FOOT) / rows.length);
  const scale = (width - NAMES) / (to - from);
  const bar = { position: 'absolute', height: each - 4, overflow: 'hidden', whiteSpace: 'nowrap', fontSize: 12, lineHeight: `${each - 4}px`, paddingLeft: 4, boxSizing: 'border-box' };
  return (
    <div style={{ position: 'relative', height }}>
      {rows.map(({ name, field, of }, row) => (
        <div key={row}>
          <div style={{ ...bar, top: row * each, width: NAMES - 8, textAlign: 'right' }}>{name}</div>
          {of.map(([start, end, value], place) => {
            const shown = field.display(value);
            const [left, right] = [Math.max(start, from), Math.min(end, to)].map((time) => NAMES + (time - from) * scale);
            const look = { top: row * each, left, width: Math.max(right - left, 1), background: shown.color, color: theme.colors.getContrastText(shown.color) };
            return (
              <div key={place} style={{ ...bar, ...look }}>
                {formattedValueToString(shown)}
              </div>
            );
          })}
        </div>
      ))}
      <div style={{ position: 'absolute', bottom: 2, left: NAMES, fontSize: 11, opacity: 0.6 }}>
        drawn by the picture&apos;s own code: no package has Grafana&apos;s state timeline
      </div>
    </div>
  );
}
