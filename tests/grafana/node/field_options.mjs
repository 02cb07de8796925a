import {
  FieldConfigOptionsRegistry,
  booleanOverrideProcessor,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardTransformers,
  standardTransformersRegistry,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';

const STANDARD = {
  unit: unitOverrideProcessor,
  min: numberOverrideProcessor,
  max: numberOverrideProcessor,
  decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  color: identityOverrideProcessor,
  noValue: stringOverrideProcessor,
  links: dataLinksOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  filterable: booleanOverrideProcessor,
  description: stringOverrideProcessor,
};

function option(id, path, process, more) {
  return {
    id, path, process, name: id, settings: {}, shouldApply: () => true, editor: () => null, override: () => null, ...more,
  };
}

/** Every property that a panel's field config sets, by its id: `unit`, `custom.width`. */
function used(fieldConfig) {
  const standard = Object.keys(fieldConfig.defaults ?? {}).filter((id) => id !== 'custom');
  const custom = Object.keys(fieldConfig.defaults?.custom ?? {}).map((id) => `custom.${id}`);
  const overridden = (fieldConfig.overrides ?? []).flatMap((rule) => rule.properties.map((property) => property.id));
  return new Set([...standard, ...custom, ...overridden]);
}

/**
 * The registry that field overrides are applied by: outside Grafana's app it is empty, and what it does not hold is
 * dropped in silence. So it is made from what the panel uses, and a standard property that is not known is an error.
 */
export function optionsRegistry(fieldConfig) {
  const registry = new FieldConfigOptionsRegistry();
  for (const [id, process] of Object.entries(STANDARD)) {
    registry.register(option(id, id, process));
  }
  for (const id of used(fieldConfig)) {
    if (id.startsWith('custom.')) {
      registry.register(option(id, id.slice('custom.'.length), identityOverrideProcessor, { isCustom: true }));
    } else if (!(id in STANDARD)) {
      throw new Error(`the field property ${id} is not one that Grafana's panels know`);
    }
  }
  return registry;
}

/** Makes Grafana's own transformations known by their ids; two of its exports are the same one. */
export function registerTransformations() {
  const byId = new Map(Object.values(standardTransformers).filter((each) => each?.id).map((each) => [each.id, each]));
  standardTransformersRegistry.setInit(() =>
    [...byId.values()].map((transformation) => ({ id: transformation.id, name: transformation.name, transformation })),
  );
}

/** JSON has no infinity: Grafana takes the first step of thresholds for the lowest, whatever it says. */
export function withLowestStep(fieldConfig) {
  const copy = structuredClone(fieldConfig ?? { defaults: {}, overrides: [] });
  copy.defaults ??= {};
  copy.overrides ??= [];
  const thresholds = [
    copy.defaults.thresholds,
    ...copy.overrides.flatMap((rule) => rule.properties.filter(({ id }) => id === 'thresholds').map(({ value }) => value)),
  ];
  for (const each of thresholds) {
    if (each?.steps?.length) {
      each.steps[0].value = -Infinity;
    }
  }
  return copy;
}
