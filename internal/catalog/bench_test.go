package catalog_test

import (
	"fmt"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

func manyQuotas(n int) quotas {
	all := make(quotas)
	for i := range n {
		all[fmt.Sprintf("model-%06d", i)] = rpm(i)
	}
	return all
}

func BenchmarkCover(b *testing.B) {
	c := after(file(manyQuotas(1000)), program("llama*", rpm(5)), program("*", rpm(1)))
	for _, name := range []string{"model-000500", "llama-3", "other"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.Cover(name)
			}
		})
	}
}

func BenchmarkPools(b *testing.B) {
	c := after(profile(group...), setPool("p", "a", "b*"), setPool("every", "*"))
	for b.Loop() {
		c.Pools("opus-4", "opus-4")
	}
}

// Of a file of 100,000 quotas.
func BenchmarkLoaded(b *testing.B) {
	f := catalog.File{Quotas: manyQuotas(100_000)}
	for b.Loop() {
		new(catalog.Catalog).Loaded(&f, true)
	}
}

func BenchmarkImage(b *testing.B) {
	c := after(file(manyQuotas(100_000)))
	data := c.AppendImage(nil)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		data = c.AppendImage(data[:0])
		if _, err := catalog.Read(wire.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
