import{r as e,t}from"./chunk-SHT3W25Y-DPLCKLXL.js";import"./chunk-POPQ4Y6H-BF-omm1K.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-B36Wzhtj.js";import"./chunk-F27PBJKO-BvvFMV2X.js";import"./chunk-L3NEJ4N5-oRV0iOji.js";import"./chunk-OSK3NFVY-Z5v69pba.js";import"./chunk-GVQU2GXP-Bvwx1xMv.js";import"./chunk-4HAMMTFA-D-kYg_NK.js";import"./chunk-P2QGCYS3-Dr_ZiFf-.js";import"./chunk-GMAD6QVW-D9mCOy8Z.js";import"./chunk-PWAF6VOD-DKQfX8ZZ.js";import"./chunk-75Z2AOVW-UnRZRKZX.js";import"./chunk-DU6HZSFF-DPSgb4ml.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};