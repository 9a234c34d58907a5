/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The measured constants of the optimiser's costs (handler/costs.h). `make bench-costs` measures them again and prints
   them as below; decision record 30 has the machine and the figures. */

#ifndef TEAK_HANDLER_COST_CONSTANTS_H
#define TEAK_HANDLER_COST_CONSTANTS_H

namespace teak::cost {

/* Nanoseconds for which the server counts 1: InnoDB finds a row in memory by an entry of a secondary key. */
constexpr double UNIT_NS = 3100;
/* The same in Teak. */
constexpr double LOOKUP_NS = 1800;
/* The next row of a scan, of 130 bytes; the next entry of a key; the first entry of a range of a key. In memory. */
constexpr double SCAN_NS = 145;
constexpr double ENTRY_NS = 130;
constexpr double ENTRY_LOOKUP_NS = 1200;
/* A look-up of a row that is not in memory takes so much longer: for any page, and for each KiB of it before compression. */
constexpr double MISS_NS = 5000;
constexpr double MISS_NS_PER_KIB = 460;
/* A scan takes so much longer for each KiB, before compression, that is not in memory. */
constexpr double SCAN_MISS_NS_PER_KIB = 620;
/* Mean bytes of a page before compression, if the index does not report them: its files are closed, or it has no pages. */
constexpr double PAGE_BYTES = 65536;

}  // namespace teak::cost

#endif
