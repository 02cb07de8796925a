import { getFieldDisplayName } from '@grafana/data';

const REFERENCE = /\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+(?:\.[^:^}]+)?)(?::([^}]+))?\}/g;
const ALL = '$__all';

const regexEscaped = (text) => text.replace(/[\\^$*+?.()|[\]{}]/g, '\\$&');
const promqlEscaped = (text) => text.replace(/\\/g, '\\\\').replace(/"/g, '\\"');

/** One value as it stands inside a quoted PromQL regular expression, as the Prometheus data source writes it. */
const promqlRegex = (text) => regexEscaped(text).replace(/\\/g, '\\\\').replace(/"/g, '\\"');

const FORMATS = {
  raw: (values) => values.join(','),
  text: (values) => values.join(' + '),
  csv: (values) => values.join(','),
  pipe: (values) => values.join('|'),
  regex: (values) => (values.length === 1 ? regexEscaped(values[0]) : `(${values.map(regexEscaped).join('|')})`),
  doublequote: (values) => values.map((value) => `"${value.replace(/"/g, '\\"')}"`).join(','),
  percentencode: (values) => encodeURIComponent(values.join(',')),
  uriencode: (values) => encodeURI(values.join(',')),
  queryparam: (values, name) => values.map((value) => `var-${name}=${encodeURIComponent(value)}`).join('&'),
};

/**
 * What a dashboard's variables are, and how text with them is filled in.
 *
 * `given` are the chosen values by name, a text or a list of texts; a variable without one has the value that the
 * dashboard's file gives it, and "All" its `allValue`.
 */
export class Variables {
  constructor(dashboard, given, range) {
    this.definitions = new Map((dashboard.templating?.list ?? []).map((variable) => [variable.name, variable]));
    this.given = given;
    this.range = range;
  }

  /** The chosen values of a variable as a list, or undefined where there is no such variable. */
  chosen(name) {
    const definition = this.definitions.get(name);
    const value = this.given[name] ?? definition?.current?.value ?? definition?.query;
    if (definition !== undefined && value !== undefined && typeof value === 'object' && !Array.isArray(value)) {
      throw new Error(`the variable ${name} has no value: its options come from a query, so the question must give one`);
    }
    return value === undefined ? (definition ? [''] : undefined) : [value].flat().map(String);
  }

  values(name) {
    const values = this.chosen(name);
    const isAll = values?.length === 1 && values[0] === ALL;
    return isAll ? [this.definitions.get(name)?.allValue ?? '.*'] : values;
  }

  isList(name) {
    const definition = this.definitions.get(name);
    return Boolean(definition?.multi || definition?.includeAll);
  }

  /** A query's text: values of one-choice variables stand as they are, others as a regular expression. */
  query(expression, extra) {
    return expression.replace(REFERENCE, (whole, plain, bracketed, bracketedFormat, braced, bracedFormat) => {
      const name = plain ?? bracketed ?? braced;
      if (name in extra) {
        return extra[name];
      }
      const values = this.values(name);
      if (values === undefined) {
        return whole;
      }
      const format = bracketedFormat ?? bracedFormat;
      if (format !== undefined) {
        return this.formatted(values, format, name);
      }
      if (this.chosen(name).includes(ALL)) {
        return values[0];
      }
      if (!this.isList(name)) {
        return values.map(promqlEscaped).join(',');
      }
      return values.length === 1 ? promqlRegex(values[0]) : `(${values.map(promqlRegex).join('|')})`;
    });
  }

  formatted(values, format, name) {
    const write = FORMATS[format];
    if (write === undefined) {
      throw new Error(`the format ${format} of the variable ${name} is not known to this test`);
    }
    return write(values, name);
  }

  /** A title's, description's or link's text; `scoped` carries the cell that a link belongs to. */
  text(source, scoped = {}, format = undefined) {
    const write = (value, own, name = '') => {
      const wanted = own ?? (typeof format === 'string' ? format : undefined);
      return wanted === undefined || wanted === 'text' ? [value].flat().join(' + ') : this.formatted([value].flat(), wanted, name);
    };
    return String(source).replace(REFERENCE, (whole, plain, bracketed, bracketedFormat, braced, bracedFormat) => {
      const name = plain ?? bracketed ?? braced;
      const own = bracketedFormat ?? bracedFormat;
      if (name === '__url_time_range') {
        return `from=${this.range.from.valueOf()}&to=${this.range.to.valueOf()}`;
      }
      if (name === '__all_variables') {
        return [...this.definitions.keys()].map((each) => FORMATS.queryparam(this.chosen(each) ?? [], each)).join('&');
      }
      const cell = cellValue(name, scoped);
      if (cell !== undefined) {
        return write(cell, own);
      }
      const named = scoped[name]?.value;
      if (named !== undefined && typeof named !== 'object') {
        return write(String(named), own);
      }
      const values = this.chosen(name);
      if (values === undefined) {
        return whole;
      }
      return own === 'queryparam' ? FORMATS.queryparam(values, name) : write(this.values(name), own, name);
    });
  }
}

/** What `__data.fields.X`, `__data.fields["X"]`, `__field.labels.X` and `__value.raw` say of the cell, if they do. */
function cellValue(name, scoped) {
  const context = scoped.__dataContext?.value;
  if (context === undefined) {
    return undefined;
  }
  const { frame, field, rowIndex } = context;
  const column = /^__data\.fields(?:\.(.+)|\[['"]?(.+?)['"]?\])$/.exec(name);
  if (column !== null) {
    const wanted = column[1] ?? column[2];
    const found =
      frame.fields.find((each) => getFieldDisplayName(each, frame) === wanted || each.name === wanted) ??
      frame.fields[Number(wanted)];
    return found === undefined ? undefined : String(found.values[rowIndex] ?? '');
  }
  const label = /^__field\.labels\.(.+)$/.exec(name);
  if (label !== null) {
    return field.labels?.[label[1]] ?? '';
  }
  if (name === '__series.name') {
    return frame.name ?? '';
  }
  if (name === '__value.raw') {
    return String(field.values[rowIndex] ?? '');
  }
  return undefined;
}
