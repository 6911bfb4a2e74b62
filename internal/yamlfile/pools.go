package yamlfile

import (
	"maps"
	"slices"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// A file has pools in the section poolsKey, by their names: their members and their quotas. What
// else there is of them is in sections like those of models, whose keys begin with poolPrefix.
const (
	poolsKey   = "pools"
	poolPrefix = "pool_"
	modelsKey  = "models"
)

// split returns the models of a snapshot, and its pools by their names; nil for none.
func split(s *state.Snapshot) (models, pools *state.Snapshot) {
	models, pools = &state.Snapshot{Answers: s.Answers}, &state.Snapshot{}
	models.Quotas, pools.Quotas = splitMap(s.Quotas)
	models.Usage, pools.Usage = splitMap(s.Usage)
	models.Cooldowns, pools.Cooldowns = splitMap(s.Cooldowns)
	models.Said, pools.Said = splitMap(s.Said)
	models.Found, pools.Found = splitMap(s.Found)
	models.Spend, pools.Spend = splitMap(s.Spend)
	_, pools.Pools = splitMap(s.Pools)
	if len(pools.Quotas)+len(pools.Usage)+len(pools.Cooldowns)+len(pools.Found)+len(pools.Spend)+len(pools.Pools) == 0 {
		return models, nil
	}
	return models, pools
}

func splitMap[V any](all map[string]V) (models, pools map[string]V) {
	models = all
	for name, v := range all {
		pool, is := state.PoolOf(name)
		if !is {
			continue
		}
		if pools == nil {
			models, pools = maps.Clone(all), make(map[string]V)
		}
		delete(models, name)
		pools[pool] = v
	}
	return models, pools
}

// pools writes the sections of pools, as far as there is anything to write.
func (w *encoder) pools(s *state.Snapshot) {
	named := make(map[string]bool)
	for pool := range s.Quotas {
		named[pool] = true
	}
	for pool := range s.Pools {
		named[pool] = true
	}
	if len(named) > 0 {
		w.section(poolsKey, len(named))
	}
	for _, pool := range slices.Sorted(maps.Keys(named)) {
		w.model(pool)
		if models, has := s.Pools[pool]; has {
			w.list(modelsKey, len(models))
			for _, model := range models {
				w.buf = append(append(w.buf, "            - "...), quotedName(model)...)
				w.endLine()
			}
		}
		if q, has := s.Quotas[pool]; has {
			w.quotaFields(&q)
		}
	}
	if len(s.Usage) > 0 {
		w.section(poolPrefix+"state", len(s.Usage))
		w.usages(s.Usage)
	}
	w.rest(s, poolPrefix)
}

// pool reads the members and the quota of a pool.
func (p *lineScanner) pool(s *state.Snapshot, pool string, indent int) error {
	if _, exists := s.Quotas[pool]; exists {
		return errLayout
	}
	if _, exists := s.Pools[pool]; exists {
		return errLayout
	}
	members, has := []string{}, false
	q, err := p.quotaFieldsBeside(indent, func(key string) (mine bool, err error) {
		if mine = key == modelsKey; !mine {
			return false, nil
		}
		has = true
		return true, p.list(key, indent, func() error {
			model, err := textOf(p.text)
			if err != nil {
				return err
			}
			members = append(members, model)
			return p.next()
		})
	})
	if s.Quotas[pool] = q; has {
		s.Pools[pool] = members
	}
	return err
}

func (b snapshotBuilder) pool(pool string, n *yaml.Node) error {
	members, has := []string{}, false
	q, err := quotaBeside(n, func(key string, value *yaml.Node) (mine bool, err error) {
		if mine = key == modelsKey; !mine {
			return false, nil
		}
		has = true
		return true, eachItem(value, func(item *yaml.Node) error {
			if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
				return wrongType(item, "a text")
			}
			members = append(members, item.Value)
			return nil
		})
	})
	if b.Quotas[pool] = q; has {
		b.Pools[pool] = members
	}
	return err
}
