package otelratelimit

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// maxPoints bounds the attribute sets of a model. The words of the limiter make some 60; only the
// causes that a program gives to CooldownFor could pass it.
const maxPoints = 256

// options are one attribute set, made ready for the methods of instruments: making it costs more
// than a measurement.
type options struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

func newOptions(attributes ...attribute.KeyValue) *options {
	o := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return &options{
		add: []metric.AddOption{o}, record: []metric.RecordOption{o}, observe: []metric.ObserveOption{o},
	}
}

// point is the attributes of an instrument beside those of the model, its class and the pool: a and
// b are those of its Attributes, or n is the first, and a the second. Attributes that are empty are
// left out. Instruments of pools have the points of those of models.
type point struct {
	instruments.ID
	n    int
	a, b string
}

func (p point) attributes() []attribute.KeyValue {
	var set []attribute.KeyValue
	keys := instruments.List[p.ID].Attributes
	if p.n != 0 {
		set, keys = append(set, attribute.Int(keys[0].Name, p.n)), keys[1:]
	} else if p.ID == instruments.ProviderRejections {
		keys = keys[1:]
	}
	for i, value := range [...]string{p.a, p.b} {
		if value != "" {
			set = append(set, name(keys[i], value))
		}
	}
	return set
}

// name returns an attribute whose value may be a name of a caller.
func name(a instruments.Attribute, value string) attribute.KeyValue {
	return attribute.String(a.Name, instruments.Name(value))
}

// attributes are the attribute sets of a model, of a class of its calls, or of a pool: what names
// it alone, and together with others.
type attributes struct {
	alone  *options
	points *instruments.Table[point, *options]
}

func newAttributes(base []attribute.KeyValue) *attributes {
	return &attributes{
		alone: newOptions(base...),
		points: instruments.NewTable(maxPoints, point{}, func(p point) *options {
			return newOptions(slices.Concat(base, p.attributes())...)
		}),
	}
}

// series is what the Handler keeps for a model.
type series struct {
	*attributes
	tokens [len(tokenKinds)][len(tokenTypes)]count
	genAI  *genAISeries // nil without WithGenAIMetrics

	base    []attribute.KeyValue
	classed sync.Once
	classes *instruments.Table[string, *ofClass] // nil until there is a call of one
}

// ofClass are the attributes of the calls of a class, which are made when there is one.
type ofClass struct {
	name string
	once sync.Once
	made *attributes
}

var (
	tokenKinds = [...]string{instruments.Reserved, instruments.Settled, instruments.Returned}
	tokenTypes = [...]string{instruments.Input, instruments.Output}
)

func (c *config) newSeries(k instruments.Key) *series {
	base := c.attributesWith(name(instruments.Model, k.Model))
	if k.Provider != "" {
		base = append(base, name(instruments.Provider, providerName(k.Provider)))
	}
	base = slices.Clip(base)
	s := &series{attributes: newAttributes(base), base: base}
	if c.genAI {
		s.genAI = c.newGenAISeries(base, k.Provider != "")
	}
	return s
}

// of returns the attributes of the calls of a class: those of the model where they are of none.
func (s *series) of(class string) *attributes {
	if class == "" {
		return s.attributes
	}
	s.classed.Do(func() {
		s.classes = instruments.NewTable(instruments.MaxClasses, instruments.OtherName, func(name string) *ofClass {
			return &ofClass{name: name}
		})
	})
	c := s.classes.Of(class)
	c.once.Do(func() { c.made = newAttributes(append(s.base, name(instruments.Class, c.name))) })
	return c.made
}

func (c *config) newPool(pool string) *attributes {
	return newAttributes(c.attributesWith(name(instruments.Pool, pool)))
}

// addTokens counts tokens of a kind.
func (s *series) addTokens(kind int, u ratelimit.Usage) {
	s.tokens[kind][0].add(u.PromptTokens)
	s.tokens[kind][1].add(u.OutputTokens)
}

// count is a number of tokens, which stays at the largest when it would pass it.
type count struct {
	n    atomic.Int64
	with atomic.Pointer[options] // nil until it is first collected
}

func (c *count) add(n int) {
	if n > 0 && c.n.Add(int64(n)) < 0 {
		c.n.Store(math.MaxInt64)
	}
}

// load returns the number, which may have just passed the largest.
func (c *count) load() int64 {
	if n := c.n.Load(); n >= 0 {
		return n
	}
	return math.MaxInt64
}
