package adaptive

import (
	"encoding/binary"
	"errors"
	"math"
)

// errImage is the error for bytes that no search of the same config has written.
var errImage = errors.New("not the bytes of a search with this config")

// AppendBinary appends all that the search knows beside its config, of which SearchState is a part:
// a search that UnmarshalBinary reads from it goes on exactly as this one. It never returns an error.
func (s *RateSearch) AppendBinary(b []byte) ([]byte, error) {
	return appendFields(b, s.fields(), s.flags(), s.chance), nil
}

// UnmarshalBinary takes over what AppendBinary of a search with the same config has written. After
// an error the search is as before.
func (s *RateSearch) UnmarshalBinary(data []byte) error {
	read := *s
	chance, err := readFields(data, read.fields(), read.flags())
	if err != nil {
		return err
	}
	read.chance = chance
	read.gap = gapOf(read.level)
	*s = read
	return nil
}

// AppendBinary is that of a RateSearch.
func (s *SlotSearch) AppendBinary(b []byte) ([]byte, error) {
	return appendFields(b, s.fields(), s.flags(), s.chance), nil
}

// UnmarshalBinary is that of a RateSearch.
func (s *SlotSearch) UnmarshalBinary(data []byte) error {
	read := *s
	chance, err := readFields(data, read.fields(), read.flags())
	if err != nil {
		return err
	}
	read.chance = chance
	*s = read
	return nil
}

// field is a number of a search and its range.
type field struct {
	n           *int64
	least, most int64
}

func instant(n *int64) field { return field{n, math.MinInt64, math.MaxInt64} }

func count(n *int64) field { return field{n, 0, longestSum} }

func (c *course) level64(n *int64) field { return field{n, 0, c.ceiling} }

func (c *course) courseFields() []field {
	return []field{
		{&c.level, c.floor, c.ceiling}, c.level64(&c.knee), c.level64(&c.step), c.level64(&c.raised), {&c.streak, 0, lost},
		{&c.rivals, 0, rivalsStay}, c.level64(&c.top), {&c.stays, 0, topStays},
		instant(&c.lowered), instant(&c.opened), {&c.length, 0, math.MaxInt64},
	}
}

func (c *course) courseFlags() []*bool { return []*bool{&c.late, &c.near, &c.begun} }

func (s *SlotSearch) fields() []field {
	return append(s.courseFields(), field{&s.ended, 0, mostSlots + 1})
}

func (s *SlotSearch) flags() []*bool { return append(s.courseFlags(), &s.full) }

func (s *RateSearch) fields() []field {
	d, c := &s.drought, &s.crowd
	return append(s.courseFields(),
		field{&s.passed, 0, math.MaxInt64}, field{&s.lag, 0, int64(longestLag)}, field{&s.pause, 0, s.window},
		instant(&d.tally.from), count(&d.tally.now), count(&d.tally.before),
		instant(&d.full.from), count(&d.full.now), count(&d.full.before),
		instant(&d.began), s.level64(&d.high), count(&d.sent), count(&d.refused), instant(&d.held), s.level64(&d.some),
		instant(&d.probed), s.level64(&d.allowed), instant(&d.until),
		s.level64(&c.served), instant(&c.servedAt), s.level64(&c.latest), count(&c.signs), s.level64(&c.high),
		s.level64(&c.back), count(&c.passes), count(&c.deaf), instant(&c.stepped), count(&c.sent), instant(&c.until),
		s.level64(&c.from), count(&c.slow), instant(&c.barred),
	)
}

func (s *RateSearch) flags() []*bool {
	return append(s.courseFlags(), &s.drought.holds, &s.crowd.holds, &s.crowd.trial, &s.crowd.met)
}

// appendFields appends numbers and flags, each in one form.
func appendFields(b []byte, fields []field, flags []*bool, c chance) []byte {
	var bits uint64
	for i, is := range flags {
		if *is {
			bits |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, bits)
	for _, f := range fields {
		b = binary.AppendVarint(b, *f.n)
	}
	return binary.LittleEndian.AppendUint64(b, uint64(c))
}

// readFields reads what appendFields has written.
func readFields(data []byte, fields []field, flags []*bool) (chance, error) {
	bits, n := binary.Uvarint(data)
	if n != 1 || bits >= 1<<len(flags) {
		return 0, errImage
	}
	for i, is := range flags {
		*is = bits&(1<<i) != 0
	}
	data = data[n:]
	for _, f := range fields {
		u, n := binary.Uvarint(data)
		if n <= 0 || n > 1 && data[n-1] == 0 {
			return 0, errImage
		}
		*f.n = int64(u>>1) ^ -int64(u&1)
		if *f.n < f.least || *f.n > f.most {
			return 0, errImage
		}
		data = data[n:]
	}
	if len(data) != 8 {
		return 0, errImage
	}
	return chance(binary.LittleEndian.Uint64(data)), nil
}
