package memlog

import (
	"fmt"
	"slices"
	"sort"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// core is the log itself: no clock, no faults, no lock. It is the model of what a store does.
type core struct {
	id    uint64 // of the log; 0 is none
	lost  bool   // there was one
	base  store.Position
	image store.Image   // the newest
	all   []store.Entry // behind base
}

// find returns the index of the first entry behind a position.
func (c *core) find(after store.Position) (int, error) {
	i := sort.Search(len(c.all), func(i int) bool { return c.all[i].At.Seq >= after.Seq })
	switch {
	case c.id == 0:
		return 0, fmt.Errorf("there is no log: %w", store.ErrLost)
	case after.Log != c.id:
		return 0, fmt.Errorf("another log is there: %w", store.ErrLost)
	case i < len(c.all) && c.all[i].At == after:
		return i + 1, nil
	case after == c.base:
		return 0, nil
	case after.Seq < c.base.Seq:
		return 0, store.ErrTrimmed
	}
	return 0, fmt.Errorf("entry %d is not in the log: %w", after.Seq, store.ErrLost)
}

// end returns the position of the last entry.
func (c *core) end() store.Position {
	if len(c.all) == 0 {
		return c.base
	}
	return c.all[len(c.all)-1].At
}

// add puts a batch behind all entries. Numbers leave out gap before each.
func (c *core) add(batch []store.Entry, stamp store.Stamp, gap int64) {
	seq := c.end().Seq
	for _, e := range batch {
		seq += 1 + gap
		e.Stamp = stamp
		e.At = store.Position{Log: c.id, Seq: seq, Sum: e.Sum(c.end().Sum)}
		c.all = append(c.all, e)
	}
}

// page returns at most so many entries behind a position.
func (c *core) page(after store.Position, most int) (store.News, error) {
	i, err := c.find(after)
	if err != nil {
		return store.News{}, err
	}
	n := min(most, len(c.all)-i)
	return store.News{Entries: slices.Clone(c.all[i : i+n]), More: i+n < len(c.all)}, nil
}

// save makes image the newest, and drops what the image before it covers. An image whose entry the
// log has lost is no image before it: the entries behind its place are not those that followed it.
func (c *core) save(image store.Image) error {
	covered, lost := c.find(c.image.At)
	if lost == nil && c.id == image.At.Log && image.At.Seq <= c.image.At.Seq {
		return store.ErrOlder
	}
	if _, err := c.find(image.At); err != nil {
		return fmt.Errorf("place of the image: %w", err)
	}
	if lost == nil {
		c.all = slices.Clone(c.all[covered:])
		c.base = c.image.At
	}
	c.image = image
	return nil
}

// begin puts a new log in the place of old.
func (c *core) begin(old uint64, image store.Image) error {
	switch {
	case c.id != 0 && c.id == image.At.Log:
		return nil
	case c.id != old:
		return fmt.Errorf("another log is there: %w", store.ErrLost)
	}
	*c = core{id: image.At.Log, base: image.At, image: image}
	return nil
}

// load returns the newest image.
func (c *core) load() (store.Image, error) {
	if c.id == 0 && c.lost {
		return store.Image{}, fmt.Errorf("the store was emptied: %w", store.ErrLost)
	}
	return c.image, nil
}
