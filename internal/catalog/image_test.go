package catalog_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// What is read is what is written again, and all sayings are possible afterwards.
func FuzzRead(f *testing.F) {
	for seed := range uint64(20) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		c := new(catalog.Catalog)
		for range seed {
			r.step(true)(c)
		}
		f.Add(c.AppendImage(nil), seed)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := wire.NewReader(data)
		c, err := catalog.Read(r)
		if err != nil || r.End() != nil {
			return
		}
		if again := c.AppendImage(nil); !bytes.Equal(again, data) {
			t.Fatalf("%q is read, and written as %q", data, again)
		}
		of := random{rand.New(rand.NewPCG(seed, 2))}
		for range 20 {
			of.step(true)(c)
			for _, name := range c.Names() {
				c.Pools(name, name)
				c.Origins(name)
			}
			reread(t, c)
		}
	})
}

// An image that is cut, or has a byte too many, is an error.
func TestReadRefuses(t *testing.T) {
	c := after(profile(group...), setPool("p", "m"), removePool("p"), setPool("q", "m"), byHand("h", rpm(1)), reportRPM("opus-5-x", 9))
	whole := c.AppendImage(nil)
	for n := range whole {
		if _, err := catalog.Read(wire.NewReader(whole[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are read", n, len(whole))
		}
	}
	empty := image(new(catalog.Catalog))
	if empty != "\x00\x00\x00\x00\x00\x00\x00" {
		t.Fatalf("the empty image is %q", empty)
	}
	for _, tt := range []struct{ name, data, want string }{
		{"nothing said of a model", "\x00\x00\x01\x01m\x00\x00\x00" + "\x00\x00\x00\x00", "quota of which nothing is said"},
		{"a report in a file", "\x00\x00\x01\x01m\x00\x10\x01\x02\x00" + "\x00\x00\x00\x00", "quota of an origin that says none"},
		{"a file beside a program", "\x00\x00\x01\x01m\x05\x00\x00\x00\x00" + "\x00\x00\x00\x00", "quota of an origin that says none"},
		{"an empty lesson", "\x00\x00\x01\x01m\x10\x00\x00\x00" + "\x00\x00\x00\x00", "lesson without a limit"},
		{"names out of order", "\x00\x00\x02\x01n\x01\x00\x00\x00\x01m\x01\x00\x00\x00" + "\x00\x00\x00\x00", "name out of order"},
		{"a name twice", "\x00\x00\x02\x01m\x01\x00\x00\x00\x01m\x01\x00\x00\x00" + "\x00\x00\x00\x00", "name out of order"},
		{"a quota by hand as said", "\x00\x00\x01\x01m\x01\x00\x00\x00" + "\x01\x01m\x01\x00" + "\x00\x00\x00", "quota by hand that holds anyway"},
		{"none by hand, as said", "\x00\x00\x00" + "\x01\x01m\x00" + "\x00\x00\x00", "quota by hand that holds anyway"},
		{"a pool by hand", "\x00\x00\x00" + "\x01\x06\x1fpool:\x01\x00" + "\x00\x00\x00", "quota of a pool set by hand"},
		{"a group that is no pool", "\x00\x00\x00\x00" + "\x01\x01m\x01p" + "\x00\x00", "name that is not of a pool"},
		{"a pool without its mark", "\x00\x00\x00\x00\x00" + "\x01\x01p\x01\x00\x00\x00" + "\x00", "name that is not of a pool"},
		{"a pool without members", "\x00\x00\x00\x00\x00" + "\x01\x06\x1fpool:\x00\x00\x00" + "\x00", "pool without members"},
		{"a removed name twice", "\x00\x00\x00\x00\x00\x00" + "\x02\x01a\x01a", "name that was there before"},
		{"a zero that is there", "\x00\x00\x01\x01m\x01\x01\x00\x00\x00" + "\x00\x00\x00\x00", "field of a quota that is zero"},
		{"a field that is not known", "\x00\x00\x01\x01m\x01\x80\x80\x10\x00\x00" + "\x00\x00\x00\x00", "number out of range"},
		{"an origin that is unknown", "\x00\x00\x01\x01m\x20\x00\x00\x00" + "\x00\x00\x00\x00", "number out of range"},
		{"an empty name of a zone", "\x00\x00\x01\x01m\x01\x80\x80\x01\x00\x00\x00" + "\x00\x00\x00\x00", "zone without a name"},
		{"more members than bytes", "\x00\x00\x00\x00\x00" + "\x01\x06\x1fpool:\x01\x7f\x00", "too large a number of values"},
	} {
		if _, err := catalog.Read(wire.NewReader([]byte(tt.data))); err == nil || !strings.Contains(err.Error(), ": "+tt.want+" at offset") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// Copies that refer to each other in a circle, which no saying makes, do no harm.
func TestCircleOfCopies(t *testing.T) {
	data := "\x00\x00\x02" + "\x02a*\x00\x00\x03a**\x01\x02\x00" + "\x03a**\x00\x00\x02a*\x01\x02\x00" +
		"\x00" + "\x01\x01m\x0a\x1fpool:g/of" + "\x01\x0a\x1fpool:g/of\x00\x00\x01\x00" + "\x00"
	c, err := catalog.Read(wire.NewReader([]byte(data)))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Pools("ab", "ab"); len(got) != 0 {
		t.Errorf("in %q", got)
	}
	c.SetQuota("a*", rpm(1))
	if got := quotasOf(c); len(got) != 1 {
		t.Errorf("after one was said: %v", got)
	}
}
